"""The gRPC shell: transport in and out, no mathematics."""
