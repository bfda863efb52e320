// Package slack is the notifier that writes a message to a Slack channel, by an
// incoming webhook or as a bot.
//
// It may import dag and callbacks.
package slack
