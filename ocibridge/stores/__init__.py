# SPDX-License-Identifier: Apache-2.0
"""Where artifacts are kept: a registry, an image-layout folder, an image-layout tar file."""
