"""How Sphinx builds the site: `make docs` writes it to docs/_build/html, and any warning is an error."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "extensions"), str(HERE.parent / "src")]

os.environ["BMCD_QUIET"] = "1"  # no progress in the pages
# Notebooks run this package, and not what a reader's own IPython loads at its start.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE.parent / "src"), os.environ.get("PYTHONPATH")]))
os.environ["IPYTHONDIR"] = str(HERE / "ipython")

from bmcd import __version__  # noqa: E402

project = "bmcd"
author = "The bmcd developers"
copyright = "the bmcd developers"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "numpydoc",
    "repository_pages",
    "command_help",
    "docstrings",
    "mathml",
]
exclude_patterns = ["_build", "extensions", "ipython"]
html_theme = "pydata_sphinx_theme"
html_title = "bmcd"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_show_sphinx = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# A first page and the pages of results need no list of neighbours.
html_sidebars = {"index": []}

# Markdown.
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
# Lexers that do not know a file's own dialect (console lines with comments) must not fail the build.
suppress_warnings = ["misc.highlighting_failure"]

# Notebooks: run at build, kept until their text or the package changes, an error is an error of the build.
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "notebooks")
nb_execution_raise_on_error = True
nb_execution_in_temp = True  # what a notebook writes goes where nobody looks
nb_execution_timeout = 600  # far more than any needs: each computes for less than a minute
nb_merge_streams = True
nb_render_markdown_format = "myst"
nb_mime_priority_overrides = [("html", "text/html", 0), ("html", "image/svg+xml", 5), ("html", "image/png", 10)]

# The reference. Docstrings put names in single backticks; those that are documented become links.
default_role = "py:obj"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autoclass_content = "class"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
add_module_names = False
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
