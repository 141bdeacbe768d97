"""HyperNodes: objects, the nodes they select, and the tree of domains over nodes."""
