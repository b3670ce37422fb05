// Command go uses the gateway through the official OpenAI client: it lists models, requests a completion and a stream,
// and lets the model call a tool. Only base URL and key differ from a program that uses OpenAI.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func main() {
	client := openai.NewClient(option.WithBaseURL("http://127.0.0.1:8080/v1"), option.WithAPIKey("sk-local"))
	if err := ask(context.Background(), os.Stdout, client, "demo"); err != nil {
		log.Fatal(err)
	}
}

// ask sends requests and writes the responses.
func ask(ctx context.Context, w io.Writer, client openai.Client, model string) error {
	models, err := client.Models.List(ctx)
	if err != nil {
		return err
	}
	for _, m := range models.Data {
		fmt.Fprintln(w, "model:", m.ID)
	}

	params := openai.ChatCompletionNewParams{
		Model:    model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello")},
	}
	completion, err := client.Chat.Completions.New(ctx, params)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "completion:", completion.Choices[0].Message.Content)

	fmt.Fprint(w, "stream: ")
	stream := client.Chat.Completions.NewStreaming(ctx, params)
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			fmt.Fprint(w, choice.Delta.Content)
		}
	}
	fmt.Fprintln(w)
	if err := stream.Err(); err != nil {
		return err
	}
	return useTool(ctx, w, client, model)
}

// useTool lets the model call a function and sends it the result.
func useTool(ctx context.Context, w io.Writer, client openai.Client, model string) error {
	params := openai.ChatCompletionNewParams{
		Model:    model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Call temperature: how warm is it in Florence?")},
		Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name: "temperature",
			Parameters: openai.FunctionParameters{
				"type":       "object",
				"properties": map[string]any{"place": map[string]any{"type": "string"}},
				"required":   []string{"place"},
			},
		})},
	}
	completion, err := client.Chat.Completions.New(ctx, params)
	if err != nil {
		return err
	}
	message := completion.Choices[0].Message
	params.Messages = append(params.Messages, message.ToParam())
	for _, call := range message.ToolCalls {
		fmt.Fprintln(w, "tool:", call.Function.Name, call.Function.Arguments)
		params.Messages = append(params.Messages, openai.ToolMessage("31 °C", call.ID))
	}
	completion, err = client.Chat.Completions.New(ctx, params)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "after the tool:", completion.Choices[0].Message.Content)
	return nil
}
