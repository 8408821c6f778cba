// Version 6: the agent's own summary tool is no node (see `store/drop_summary_tool.cypher`). Nothing is indexed anew.
