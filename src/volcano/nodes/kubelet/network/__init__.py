"""Network of the pods of local nodes: Services, NetworkPolicies and node ports."""
