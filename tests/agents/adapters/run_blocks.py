"""Runs blocks of the documentation in one process, as frameworks take seconds to import: run_blocks.py < blocks."""

from __future__ import annotations

import json
import os
import sys
import traceback

if __name__ == "__main__":
    for name, given in json.loads(sys.stdin.read()).items():
        os.chdir(given["folder"])
        os.environ.update(given["environment"])
        error = ""
        try:
            exec(compile(given["code"], f"<{name}>", "exec"), {"__name__": "__main__"})
        except BaseException:
            error = traceback.format_exc()
        if "litellm" in sys.modules:  # which keeps the callbacks of the block before
            sys.modules["litellm"].logging_callback_manager._reset_all_callbacks()
        print(json.dumps({"scenario": name, "error": error}), flush=True)
