package ollama
