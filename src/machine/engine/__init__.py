"""Engine: Tinker's API on this machine. A Hugging Face model folder in, a loopback server out.

Trains LoRA on torch and answers OpenAI-compatible chat. Nothing above the API imports it: only the commands that start
and stop it, and set-up, do. It imports no room.
"""
