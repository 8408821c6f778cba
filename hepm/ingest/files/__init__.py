"""From the names of files, folders, archives and addresses to open files."""
