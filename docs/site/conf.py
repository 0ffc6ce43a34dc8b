"""The site: the guides of docs/ as they are, and the public headers. scripts/docs.sh builds it."""

import logging
import os
import re

project = "zkrecipes"
copyright = "the zkrecipes authors"
extensions = ["myst_parser", "breathe"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["site"]

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

breathe_projects = {"zkrecipes": os.environ["ZKRECIPES_DOXYGEN_XML"]}
breathe_default_project = "zkrecipes"
breathe_default_members = ("members",)
breathe_show_include = False
primary_domain = "cpp"
highlight_language = "none"
cpp_id_attributes = ["ZKRECIPES_API"]

# Names that are not ours, or not for users.
nitpicky = True
nitpick_ignore_regex = [
    (r"cpp:.*", r"(std|boost|fmt|asio)(::.*)?"),
    (r"cpp:.*", r"(.*::)?detail(::.*)?"),
    (r"cpp:.*", r"State|Impl|Both|Text|Readers|Pool|Handle|duration::\w+|Clock::time_point"),
    # Sphinx looks for a specialisation that nobody declares.
    (r"cpp:.*", r".*<.*"),
]

html_theme = "furo"
html_title = "zkrecipes"
html_static_path = ["static"]
html_css_files = ["zkrecipes.css"]
html_copy_source = False
html_show_sphinx = False


def setup(app):
    # Breathe declares a header's namespace on the page of each.
    def not_a_namespace(record):
        text = record.getMessage()
        return not (text.startswith("Duplicate C++ declaration") and re.search(r"cpp:type:: zk\w+'", text))

    logging.getLogger("sphinx.sphinx.domains.cpp").addFilter(not_a_namespace)
