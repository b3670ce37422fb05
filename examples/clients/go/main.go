// Command go asks the gateway with OpenAI's own client: the models, a whole answer, a stream, and a tool in two turns.
// Only the base address and the key differ from a program that asks OpenAI.
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

// ask writes what the model answers.
func ask(ctx context.Context, w io.Writer, client openai.Client, model string) error {
	models, err := client.Models.List(ctx)
	if err != nil {
		return err
	}
	for _, m := range models.Data {
		fmt.Fprintln(w, "model:", m.ID)
	}

	question := openai.ChatCompletionNewParams{
		Model:    model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello")},
	}
	answer, err := client.Chat.Completions.New(ctx, question)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "whole:", answer.Choices[0].Message.Content)

	fmt.Fprint(w, "stream: ")
	stream := client.Chat.Completions.NewStreaming(ctx, question)
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

// useTool lets the model call a function, and gives it the result.
func useTool(ctx context.Context, w io.Writer, client openai.Client, model string) error {
	question := openai.ChatCompletionNewParams{
		Model:    model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("How warm is it in Florence?")},
		Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name: "temperature",
			Parameters: openai.FunctionParameters{
				"type":       "object",
				"properties": map[string]any{"place": map[string]any{"type": "string"}},
				"required":   []string{"place"},
			},
		})},
	}
	answer, err := client.Chat.Completions.New(ctx, question)
	if err != nil {
		return err
	}
	message := answer.Choices[0].Message
	question.Messages = append(question.Messages, message.ToParam())
	for _, call := range message.ToolCalls {
		fmt.Fprintln(w, "tool:", call.Function.Name, call.Function.Arguments)
		question.Messages = append(question.Messages, openai.ToolMessage("31 °C", call.ID))
	}
	answer, err = client.Chat.Completions.New(ctx, question)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "after the tool:", answer.Choices[0].Message.Content)
	return nil
}
