"""What memory has to say, put into a prompt."""
