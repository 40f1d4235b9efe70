"""Models: a Hugging Face folder in, a Llama with its LoRA out. Knows nothing of requests, sampling or training."""
