"""Does memory help? What sessions with memory and sessions without it say of that, and how sure it is."""
