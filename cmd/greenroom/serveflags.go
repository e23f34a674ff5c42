package main

import (
	"time"

	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/node"
)

type serveFlags struct {
	listen, dataDir, cacheDir, store string
	tokenFile, tokensFile            string
	secretsKeyFile                   string
	tlsCert, tlsKey, clientCA        string
	insecure                         bool
	corsOrigins                      []string
	showStacks                       bool
	subscriberHeartbeat              time.Duration
	logFormat, logLevel              string
	drain, drainDelay                time.Duration
	maxModule, maxStoredModules      int64
	maxActivations, maxConnections   int
	maxSubscriptions                 int
	maxRunning                       int
	readyWhenPrepared                bool
	stateMemory, callMemory          int64
	guestMemory                      int64
	appMemory                        int64
	cacheBytes, programMemory        int64
	compilers                        int
	compileMemory                    int64
	compileTime                      time.Duration
	cpuProfile                       string
	limits                           host.Limits
	overrides                        []string
	pools                            []string
	cluster                          node.ClusterConfig
}
