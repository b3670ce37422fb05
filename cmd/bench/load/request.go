package load

import (
	"encoding/json"
	"fmt"
	"strings"
)

// turn is a message of about 1,600 bytes: prose with quotes, newlines and a few non-ASCII letters.
var turn = strings.Repeat("Describe how the bridge over the river was \"built\", and what it cost; the café at its end opened later.\n"+
	"Then compare it with the older one – in two paragraphs, please – and say which stone was used where. ", 8)

// small is a prompt of about 200 bytes.
const small = "Write three sentences about the old stone bridge over the river: when it was built, how long it is, and why visitors " +
	"like to cross it on foot in the evening. Name the valley, and do not mention the weather."

// Request returns the bytes of a job's request, with the headers of an official client.
func Request(j *Job) []byte {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	messages := []message{{"user", small}}
	if j.Prompt > len(small) {
		messages = []message{{"system", "You are a guide who knows every bridge."}}
		for size := 0; size < j.Prompt; size += len(turn) {
			role := "user"
			if len(messages)%2 == 0 {
				role = "assistant"
			}
			messages = append(messages, message{role, turn[:min(len(turn), j.Prompt-size)]})
		}
		if messages[len(messages)-1].Role == "assistant" {
			messages = append(messages, message{"user", small})
		}
	}
	list, err := json.Marshal(messages)
	if err != nil {
		panic(err) // strings can always be encoded
	}
	stream := fmt.Sprintf(`"stream":%v`, j.Stream)
	if j.Stream && j.API == "" {
		stream += `,"stream_options":{"include_usage":true}`
	}
	path, body := "/v1/chat/completions", fmt.Sprintf(`{"model":%q,"messages":%s,"temperature":0.7,"max_tokens":1024,%s}`, j.Model, list, stream)
	switch j.API {
	case "messages": // the system prompt is not one of the messages
		path, body = "/v1/messages", strings.Replace(body, `"messages":[{"role":"system","content":"You are a guide who knows every bridge."},`, `"system":"You are a guide who knows every bridge.","messages":[`, 1)
	case "responses":
		path, body = "/v1/responses", fmt.Sprintf(`{"model":%q,"input":%s,"temperature":0.7,"max_output_tokens":1024,"store":false,%s}`, j.Model, list, stream)
	}
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: OpenAI/Go 3.9.0\r\nContent-Length: %d\r\nAccept: application/json\r\n"+
		"Authorization: Bearer %s\r\nContent-Type: application/json\r\nX-Stainless-Arch: x64\r\nX-Stainless-Lang: go\r\nX-Stainless-Os: Linux\r\n"+
		"X-Stainless-Package-Version: 3.9.0\r\nX-Stainless-Retry-Count: 0\r\nX-Stainless-Runtime: go\r\nX-Stainless-Runtime-Version: go1.26\r\n\r\n%s",
		path, j.Addr, len(body), j.Credential, body)
}
