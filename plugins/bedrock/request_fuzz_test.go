package bedrock

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// requestUses are the models and options for which requests are fuzzed.
var requestUses = []plugintest.FuzzUse{
	{Target: "us.anthropic.claude-sonnet-4-5-20250929-v1:0"},
	{Target: "us.anthropic.claude-opus-4-7", Options: `{"adaptive_thinking":true,"json_schema":"native","highest_effort":"max"}`},
	{Target: "arn:aws:bedrock:us-east-1:1:application-inference-profile/x", Options: `{"family":"claude","always_thinking":true,"adaptive_thinking":true,"sampling":"both","out_of_range":"refuse","unknown":"refuse"}`},
	{Target: "amazon.nova-2-lite-v1:0"},
	{Target: "openai.gpt-oss-120b-1:0", Options: `{"prompt_cache":true,"fields":{"a":1,"reasoning_effort":"low"}}`},
	{Target: "meta.llama3-1-70b-instruct-v1:0", Options: `{"tool_choice":"auto"}`},
}

// FuzzRequest sends every request that the gateway accepts to the plugin. If the plugin accepts it as well, it must
// become a request that follows the API's rules.
func FuzzRequest(f *testing.F) { suite.FuzzRequests(f, checkRequest, requestUses...) }

func FuzzConversation(f *testing.F) { suite.FuzzConversations(f, checkRequest, requestUses...) }

// checkRequest checks that the API would accept a request.
func checkRequest(t *testing.T, use int, sent string) {
	t.Helper()
	if err := validate(sent, use); err != nil {
		t.Errorf("%v: %s", err, sent)
	}
}

var (
	wordForm = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	nameForm = regexp.MustCompile(`^[a-zA-Z0-9()\[\] -]{1,200}$`)
)

type contentBlock struct {
	Text             *string
	Image, Audio     *media
	Document         *media
	CachePoint       *struct{ Type string }
	ReasoningContent *struct {
		ReasoningText   *struct{ Text, Signature string }
		RedactedContent []byte
	}
	ToolUse *struct {
		ToolUseID, Name string
		Input           map[string]any
	}
	ToolResult *struct {
		ToolUseID string
		Content   []contentBlock
	}
}

type media struct {
	Format, Name string
	Source       struct{ Bytes string }
}

type converse struct {
	Messages []struct {
		Role    string
		Content []contentBlock
	}
	System          []contentBlock
	InferenceConfig *struct {
		MaxTokens     *int64
		Temperature   *float64
		TopP          *float64
		StopSequences []string
	}
	ToolConfig *struct {
		Tools []struct {
			ToolSpec *struct {
				Name        string
				InputSchema struct{ JSON struct{ Type string } }
			}
			CachePoint *struct{ Type string }
		}
		ToolChoice map[string]struct{ Name string }
	}
	AdditionalModelRequestFields map[string]any
	OutputConfig                 *struct {
		TextFormat struct {
			Structure struct{ JSONSchema struct{ Schema, Name string } }
		}
	}
}

// validate returns an error if the API would reject a request
// (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html). use is its index in requestUses.
func validate(sent string, use int) error {
	var body converse
	if err := json.Unmarshal([]byte(sent), &body); err != nil {
		return err
	}
	c := checker{names: make(map[string]bool), claude: use <= 2, cache: use != 5}
	for i, m := range body.Messages {
		if err := c.message(m.Role, m.Content, i == len(body.Messages)-1); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	if len(body.Messages) == 0 {
		return fmt.Errorf("no messages")
	}
	if err := c.blocks(body.System, true); err != nil {
		return fmt.Errorf("system: %w", err)
	}
	if in := body.InferenceConfig; in != nil {
		switch {
		case in.MaxTokens != nil && *in.MaxTokens < 1, in.Temperature != nil && (*in.Temperature < 0 || *in.Temperature > 1),
			in.TopP != nil && (*in.TopP < 0 || *in.TopP > 1), slices.Contains(in.StopSequences, ""):
			return fmt.Errorf("inferenceConfig is out of range")
		}
	}
	if err := c.tools(&body); err != nil {
		return err
	}
	if c.points > maxCachePoints || c.points > 0 && !c.cache {
		return fmt.Errorf("%d cache points", c.points)
	}
	if o := body.OutputConfig; o != nil {
		s := o.TextFormat.Structure.JSONSchema
		if !wordForm.MatchString(s.Name) || !json.Valid([]byte(s.Schema)) {
			return fmt.Errorf("invalid schema or name %q", s.Name)
		}
	}
	return nil
}

// checker is the state of validate: what the rules need from earlier messages.
type checker struct {
	role          string          // role of the previous message
	called        map[string]bool // IDs of the calls in the last assistant message
	anyCall       bool
	names         map[string]bool // names of documents
	points        int             // number of cache points
	claude, cache bool            // the model is a Claude model, and may have cache points
}

func (c *checker) message(role string, content []contentBlock, last bool) error {
	if role == c.role || role != "user" && role != "assistant" || len(content) == 0 {
		return fmt.Errorf("message of role %q with %d blocks after one of role %q", role, len(content), c.role)
	}
	c.role = role
	if role == "assistant" {
		c.called = make(map[string]bool)
	}
	if err := c.blocks(content, false); err != nil {
		return err
	}
	end := content[len(content)-1]
	if role == "assistant" && end.ReasoningContent != nil {
		return fmt.Errorf("assistant message ends with reasoning")
	}
	if c.claude && role == "assistant" && last && end.Text != nil && strings.TrimRight(*end.Text, " \t\r\n") != *end.Text {
		return fmt.Errorf("final assistant message ends in white space")
	}
	return nil
}

func (c *checker) blocks(content []contentBlock, textOnly bool) error {
	documents, texts := 0, 0
	for i := range content {
		b := &content[i]
		kinds := 0
		for _, set := range []bool{b.Text != nil, b.Image != nil, b.Audio != nil, b.Document != nil, b.CachePoint != nil, b.ReasoningContent != nil, b.ToolUse != nil, b.ToolResult != nil} {
			if set {
				kinds++
			}
		}
		if kinds != 1 || textOnly && b.Text == nil && b.CachePoint == nil {
			return fmt.Errorf("block %d has %d kinds", i, kinds)
		}
		switch {
		case b.Text != nil:
			texts++
			if strings.TrimSpace(*b.Text) == "" {
				return fmt.Errorf("block %d is blank", i)
			}
		case b.CachePoint != nil:
			if c.points++; i == 0 {
				return fmt.Errorf("cache point before the first block")
			}
		case b.ReasoningContent != nil:
			if r := b.ReasoningContent; (r.ReasoningText == nil) == (len(r.RedactedContent) == 0) || r.ReasoningText != nil && r.ReasoningText.Signature == "" {
				return fmt.Errorf("block %d is reasoning without a signature", i)
			}
		case b.ToolUse != nil:
			if !wordForm.MatchString(b.ToolUse.ToolUseID) || !wordForm.MatchString(b.ToolUse.Name) || b.ToolUse.Input == nil {
				return fmt.Errorf("block %d is an invalid call %+v", i, b.ToolUse)
			}
			c.called[b.ToolUse.ToolUseID], c.anyCall = true, true
		case b.ToolResult != nil:
			if !c.called[b.ToolResult.ToolUseID] || texts > 0 {
				return fmt.Errorf("block %d is a result in the wrong place", i)
			}
			if err := c.result(b.ToolResult.Content); err != nil {
				return err
			}
		default:
			if err := c.media(b); err != nil {
				return fmt.Errorf("block %d: %w", i, err)
			}
			if b.Document != nil {
				documents++
			}
		}
	}
	if documents > 0 && texts == 0 {
		return fmt.Errorf("message with a document but no text")
	}
	return nil
}

func (c *checker) result(content []contentBlock) error {
	for i := range content {
		switch b := &content[i]; {
		case b.Text != nil && strings.TrimSpace(*b.Text) != "":
		case b.Image != nil, b.Document != nil:
			if err := c.media(b); err != nil {
				return err
			}
		default:
			return fmt.Errorf("invalid block in a tool result: %+v", b)
		}
	}
	return nil
}

func (c *checker) media(b *contentBlock) error {
	var formats []string
	m := b.Image
	switch {
	case b.Image != nil:
		formats = []string{"png", "jpeg", "gif", "webp"}
	case b.Audio != nil:
		m = b.Audio
		formats = []string{m.Format}
	case b.Document != nil:
		m = b.Document
		formats = []string{"pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"}
		if !nameForm.MatchString(m.Name) || strings.Contains(m.Name, "  ") || c.names[m.Name] {
			return fmt.Errorf("invalid or repeated document name %q", m.Name)
		}
		c.names[m.Name] = true
	}
	if _, err := base64.StdEncoding.DecodeString(m.Source.Bytes); err != nil || m.Source.Bytes == "" || !slices.Contains(formats, m.Format) {
		return fmt.Errorf("invalid media of format %s: %v", m.Format, err)
	}
	return nil
}

func (c *checker) tools(body *converse) error {
	tc := body.ToolConfig
	if tc == nil {
		if c.anyCall {
			return fmt.Errorf("calls of undeclared tools")
		}
		return nil
	}
	names := make(map[string]bool)
	for _, tool := range tc.Tools {
		if tool.CachePoint != nil {
			c.points++
			continue
		}
		if tool.ToolSpec == nil || !wordForm.MatchString(tool.ToolSpec.Name) || tool.ToolSpec.InputSchema.JSON.Type != "object" {
			return fmt.Errorf("invalid tool %+v", tool.ToolSpec)
		}
		names[tool.ToolSpec.Name] = true
	}
	if len(names) == 0 || len(tc.ToolChoice) > 1 {
		return fmt.Errorf("%d tools, %d choices", len(names), len(tc.ToolChoice))
	}
	for kind, chosen := range tc.ToolChoice {
		if kind != "any" && (kind != "tool" || !names[chosen.Name]) {
			return fmt.Errorf("invalid tool choice %s %s", kind, chosen.Name)
		}
		if thinking, _ := body.AdditionalModelRequestFields["thinking"].(map[string]any); thinking != nil && thinking["type"] != "disabled" {
			return fmt.Errorf("forced tool call with thinking enabled")
		}
	}
	return nil
}
