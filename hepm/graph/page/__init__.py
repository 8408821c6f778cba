"""The graph page: one HTML file that shows which tool worked after which, without a network.

Nothing is fetched: script, style and data are in the page, and its Content-Security-Policy forbids anything else.
Texts of recorded runs are not trusted: they are embedded as JSON and written as text, never as HTML.
"""

from hepm.graph.page.content import read_content
from hepm.graph.page.render import render_page, write_page

__all__ = ["read_content", "render_page", "write_page"]
