# SPDX-License-Identifier: Apache-2.0
"""Name, version and user agent of the program, and what its JSON documents begin with."""

__version__ = "0.1.0"
USER_AGENT = f"ocibridge/{__version__}"
SCHEMAS = "urn:ocibridge:schema:"
"""What the `$id` of every schema begins with; the name of the document follows."""


def heading(name: str) -> dict[str, object]:
    """Return the first keys of a JSON document: the schema that it follows, and the program that wrote it.

    Args:
        name: Name of the schema, as in `schemas/NAME.json`.
    """
    return {"$schema": SCHEMAS + name, "generator": USER_AGENT}
