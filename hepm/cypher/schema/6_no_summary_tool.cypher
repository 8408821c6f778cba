// Version 6: the agent's own summary tool is no node. Nothing is indexed anew.
