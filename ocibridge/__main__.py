# SPDX-License-Identifier: Apache-2.0
"""`python -m ocibridge`."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
