"""What runs teach: experiences (PRIME), principles (EvolveR) and what users prefer (MultiSessionCollab)."""
