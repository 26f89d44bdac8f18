# SPDX-License-Identifier: Apache-2.0
"""Image volumes of Kubernetes: publish the image, predict what a runtime mounts, write the manifests."""
