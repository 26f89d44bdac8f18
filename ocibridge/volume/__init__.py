# SPDX-License-Identifier: Apache-2.0
"""Models in Kubernetes: what has to be published, what a runtime will show of it, and the manifests that say so."""
