"""Write-back: decisions to API operations, bind queue, status queue."""
