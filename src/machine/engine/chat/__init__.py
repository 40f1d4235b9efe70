"""OpenAI-compatible chat and completions over HTTP, on the base model and on checkpoints."""
