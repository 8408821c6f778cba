"""From the names of files, folders and archives to open files."""
