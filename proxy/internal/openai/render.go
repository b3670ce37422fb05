package openai

import "github.com/sluice-gateway/sluice/proxy/internal/response"

// NewWriter returns a writer of chat completions.
func NewWriter() *response.Writer { return new(response.Writer) }
