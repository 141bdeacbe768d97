"""`vcctl topology`: the tree of HyperNodes with the room and the jobs in each."""
