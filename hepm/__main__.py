"""`python -m hepm` is `hepm`."""

import hepm.cli

hepm.cli.main()
