# SPDX-License-Identifier: Apache-2.0
"""Name, version and user agent of the program."""

__version__ = "0.1.0"
USER_AGENT = f"ocibridge/{__version__}"
