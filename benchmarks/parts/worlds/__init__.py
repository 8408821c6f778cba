"""Made-up worlds in which the right next calls are known, and agents that act on hints in them."""
