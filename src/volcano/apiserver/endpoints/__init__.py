"""HTTP endpoints: resources, discovery, tables, watch, health, audit."""
