package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/oncegate/oncegate/internal/messages"
)

// words are the headers of a table in the language of its reader.
func (a *app) words(texts ...messages.Text) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = a.say.Text(t)
	}
	return out
}

// tell says a sentence on stderr, as progress.
func (a *app) tell(t messages.Text) { fmt.Fprintln(a.err, a.say.Text(t)) }

// labelled is one line about a thing: a value, or a sentence.
type labelled struct {
	label messages.Text
	value any
}

// printLabelled prints lines, and leaves those out that say nothing.
func (a *app) printLabelled(width int, lines []labelled) {
	for _, l := range lines {
		if value := a.say.Sprintf("%v", l.value); strings.TrimSpace(value) != "" {
			fmt.Fprintf(a.out, "%s %s\n", text.Pad(a.say.Text(l.label), width, ' '), inert(value))
		}
	}
}

// lineError is what cobra says about a command line, with what people are told
// in its place where their language is another.
type lineError struct {
	error
	text messages.Text
}

func (e *lineError) Unwrap() error { return e.error }

// Said is the sentence for people.
func (e *lineError) Said() messages.Text { return e.text }

// commandLine says what is wrong with a command line: err is cobra's word for it.
func commandLine(root *cobra.Command, args []string, err error) error {
	cmd, _, findErr := root.Find(args)
	if findErr != nil {
		word := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
		return &lineError{err, messages.T("%q is no command of %q", args[max(word, 0)], root.CommandPath())}
	}
	var (
		unknown *pflag.NotExistError
		bare    *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
		broken  *pflag.InvalidSyntaxError
	)
	text := messages.T("these are not the arguments that it takes: %s", cmd.UseLine())
	switch {
	case errors.As(err, &unknown):
		text = messages.T("%q has no flag %q", cmd.CommandPath(), unknown.GetSpecifiedName())
	case errors.As(err, &bare):
		text = messages.T("flag %q needs a value", bare.GetSpecifiedName())
	case errors.As(err, &invalid):
		text = messages.T("flag %q does not take the value %q", invalid.GetFlag().Name, invalid.GetValue())
	case errors.As(err, &broken):
		text = messages.T("the flag %q cannot be read", broken.GetSpecifiedFlag())
	}
	return &lineError{err, text}
}
