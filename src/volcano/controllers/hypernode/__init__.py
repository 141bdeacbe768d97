"""HyperNode controller: status of HyperNodes, and their discovery from node labels or from a UFM server."""
