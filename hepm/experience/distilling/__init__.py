"""From runs to lessons: what is compared, which turns count, and who puts it into words."""
