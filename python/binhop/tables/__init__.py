"""Makes the tables that commands print, and their forms: text, Markdown, LaTeX.

`form` has the table and its forms; `run`, `comparison` and `study` make the tables of each kind of result
from its frames, so that a run and `binhop report` print the same tables.
"""

from binhop.tables.form import FORMS, SUFFIXES, TEXT, Table, form_of, rendered

__all__ = ["FORMS", "SUFFIXES", "TEXT", "Table", "form_of", "rendered"]
