package cohere
