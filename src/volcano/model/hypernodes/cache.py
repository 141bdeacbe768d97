"""HyperNode cache: the tree of HyperNodes over the current nodes, updated where HyperNodes or nodes changed."""

from collections.abc import Iterator, Mapping

from volcano.model.hypernodes.hypernode import HyperNode
from volcano.model.hypernodes.members import Labels, NodeNames, NodeSelection, label_values, selects
from volcano.model.hypernodes.tree import HyperNodeTree, link
from volcano.model.hypernodes.view import TopologyView


class HyperNodeCache:
    """HyperNodes, the nodes each selects, and the tree of both. Without HyperNodes, nodes cost next to nothing."""

    def __init__(self) -> None:
        self._hypernodes: dict[str, HyperNode] = {}
        self._nodes: dict[str, Labels] = {}
        self._direct: dict[str, NodeNames] = {}
        # HyperNodes whose members may select a node: by its name, by one of its labels, or any node.
        self._by_name: dict[str, set[str]] = {}
        self._by_label: dict[tuple[str, str], set[str]] = {}
        self._others: set[str] = set()
        self._changed_hypernodes: set[str] = set()
        self._changed_nodes: dict[str, tuple[Labels, ...]] = {}  # with the labels before and after
        self._tree: HyperNodeTree | None = None
        self._view: TopologyView | None = None

    def put(self, hypernode: HyperNode) -> None:
        """Adds or replaces a HyperNode."""
        self._unindex(hypernode.name)
        self._hypernodes[hypernode.name] = hypernode
        self._changed_hypernodes.add(hypernode.name)
        for found in self._indexes(hypernode):
            found.add(hypernode.name)

    def remove(self, name: str) -> None:
        self._unindex(name)
        if self._hypernodes.pop(name, None) is not None:
            self._direct.pop(name, None)
            self._changed_hypernodes.add(name)

    def put_node(self, name: str, labels: Labels) -> None:
        """Adds a node or replaces its labels."""
        known = self._nodes.get(name)
        if known is None or known != labels:
            self._nodes[name] = labels
            self._change_node(name, known, labels)

    def remove_node(self, name: str) -> None:
        known = self._nodes.pop(name, None)
        if known is not None:
            self._change_node(name, known, None)

    def _change_node(self, name: str, before: Labels | None, after: Labels | None) -> None:
        changes = tuple(labels for labels in (before, after) if labels is not None)
        self._changed_nodes[name] = (*self._changed_nodes.get(name, ()), *changes)

    def tree(self) -> HyperNodeTree:
        """The tree as of now; the same object while neither domains nor the set of nodes changed."""
        tree = self._tree
        if tree is None or self._changed_hypernodes or self._changed_nodes:
            changed = self._select_again()
            same_nodes = tree is not None and all(
                (node in self._nodes) == (node in tree.root.nodes) for node in self._changed_nodes
            )
            if tree is None or changed or not same_nodes:
                nodes = tree.root.nodes if tree is not None and same_nodes else frozenset(self._nodes)
                tree = self._tree = link(dict(self._hypernodes), dict(self._direct), nodes, tree, changed)
            self._changed_hypernodes.clear()
            self._changed_nodes.clear()
        return tree

    def view(self, row_of: Mapping[str, int]) -> TopologyView:
        """The tree over the rows of a snapshot; the same object while neither changed."""
        tree = self.tree()
        view = self._view
        if view is None or view.tree is not tree or view.row_of is not row_of:
            view = self._view = TopologyView(tree, row_of)
        return view

    def _select_again(self) -> frozenset[str]:
        """Updates the nodes that HyperNodes select; returns the names of the HyperNodes that changed."""
        changed = set(self._changed_hypernodes)
        existing = [self._hypernodes[name] for name in changed if name in self._hypernodes]
        if existing:
            selection = NodeSelection(self._nodes)
            for hypernode in existing:
                self._direct[hypernode.name] = selection.select(hypernode)
        if self._hypernodes:
            moves: dict[str, set[str]] = {}
            for node in self._changed_nodes:
                for name in self._concerned(node):
                    if name not in changed:
                        moves.setdefault(name, set()).add(node)
            for name, nodes in moves.items():
                before = self._direct[name]
                selected = {node for node in nodes if self._selects(name, node)}
                after = (before - nodes) | selected
                if after != before:
                    self._direct[name] = after
                    changed.add(name)
        return frozenset(changed)

    def _concerned(self, node: str) -> set[str]:
        """HyperNodes that may select a node, by its labels before or after the change."""
        found = self._others | self._by_name.get(node, set())
        for labels in self._changed_nodes[node]:
            for item in labels.items():
                found |= self._by_label.get(item, set())
        return found

    def _selects(self, name: str, node: str) -> bool:
        labels = self._nodes.get(node)
        members = self._hypernodes[name].members
        return labels is not None and any(selects(member, node, labels) for member in members)

    def _indexes(self, hypernode: HyperNode) -> Iterator[set[str]]:
        """The sets of the indexes that a HyperNode belongs to."""
        for member in hypernode.members:
            if member.kind != "Node":
                continue
            wanted = label_values(member)
            if member.name:
                yield self._by_name.setdefault(member.name, set())
            elif wanted is None:
                yield self._others
            else:
                yield from (self._by_label.setdefault((wanted[0], value), set()) for value in wanted[1])

    def _unindex(self, name: str) -> None:
        known = self._hypernodes.get(name)
        if known is not None:
            for found in self._indexes(known):
                found.discard(name)
