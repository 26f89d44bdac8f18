# SPDX-License-Identifier: Apache-2.0
"""What the program says of itself."""

__version__ = "0.1.0"
USER_AGENT = f"ocibridge/{__version__}"
