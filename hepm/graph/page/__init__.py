"""The graph page: one HTML file that shows which tool worked after which, offline and for years.

Nothing is fetched: script, style and data stand in the page, and its Content-Security-Policy forbids the rest.
What it shows comes from recorded runs and is never trusted: it travels as JSON and is written as text, never as HTML.
"""

from hepm.graph.page.content import PageNotes, PageReport
from hepm.graph.page.render import render_page, write_page

__all__ = ["PageNotes", "PageReport", "render_page", "write_page"]
