# SPDX-License-Identifier: Apache-2.0
"""An HTTP server for tests."""

from __future__ import annotations

import http.server
from typing import Any


class QuietServer(http.server.ThreadingHTTPServer):
    """A client that hangs up is what some tests are about, and no reason for a traceback."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing."""
