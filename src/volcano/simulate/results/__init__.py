"""Results of a simulation: streamed figures, summaries and reports."""
