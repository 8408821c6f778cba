-- Version 8: the agent's own summary tool is no row, as it is no node. No edge, state or run edge ever named it.
DELETE FROM tool WHERE name = 'summarize_the_task';
DELETE FROM tool_run WHERE tool = 'summarize_the_task';
