// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package fpmreceiver

import (
	"errors"
	"fmt"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpmpdata"
	"github.com/otelcol-fpm/otelcol-fpm/internal/zmtp"
)

// target is one publisher to connect to, with what the operator says of it.
type target struct {
	endpoint   zmtp.Endpoint
	namespace  string
	component  string
	producerID string
	backend    string
	attributes map[string]any
}

// worker is the resource of a worker that this publisher speaks for (STR-103).
func (t *target) worker(workerID, identity string) *fpmpdata.Worker {
	producerID := t.producerID
	if producerID == "" {
		producerID = workerID
	}
	if producerID == "" {
		producerID = t.endpoint.String()
	}
	return fpmpdata.NewWorker(fpmpdata.WorkerIdentity{
		Namespace:  t.namespace,
		Component:  t.component,
		InstanceID: identity,
		ProducerID: producerID,
		Backend:    t.backend,
	}, t.attributes)
}

// targets expands what is configured to one target a publisher. An error names
// every fault.
func (cfg *Config) targets() ([]target, error) {
	if cfg.Endpoint != "" && len(cfg.Endpoints) > 0 {
		return nil, fmt.Errorf("endpoint (%q) and endpoints (%d of them) cannot both be set: move the one into the list", cfg.Endpoint, len(cfg.Endpoints))
	}
	if len(cfg.Endpoints) > 0 {
		return cfg.listedTargets()
	}
	if cfg.Endpoints != nil {
		return nil, fmt.Errorf("endpoints must not be an empty list: leave it out to read %s", defaultEndpoint)
	}
	address := cfg.Endpoint
	if address == "" {
		address = defaultEndpoint
	}
	endpoint, err := zmtp.ParseEndpoint(address)
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	return []target{cfg.target(endpoint, &EndpointConfig{})}, nil
}

func (cfg *Config) listedTargets() (all []target, err error) {
	seen := make(map[zmtp.Endpoint]string)
	for i := range cfg.Endpoints {
		key := fmt.Sprintf("endpoints[%d]", i)
		expanded, faults := cfg.Endpoints[i].expand(key)
		err = errors.Join(err, faults, validateAttributes(key+"::attributes", cfg.Endpoints[i].Attributes))
		for _, endpoint := range expanded {
			if other, ok := seen[endpoint]; ok {
				err = errors.Join(err, fmt.Errorf("%s (%q) and %s both read %s: an address must occur once", key, cfg.Endpoints[i].Endpoint, other, endpoint))
				break
			}
			seen[endpoint] = fmt.Sprintf("%s (%q)", key, cfg.Endpoints[i].Endpoint)
			all = append(all, cfg.target(endpoint, &cfg.Endpoints[i]))
		}
	}
	return all, err
}

// expand gives the addresses of all ranks (STR-10).
func (cfg *EndpointConfig) expand(key string) ([]zmtp.Endpoint, error) {
	if cfg.Endpoint == "" {
		return nil, fmt.Errorf("%s::endpoint must not be empty", key)
	}
	dpSize := 1
	if cfg.DPSize != nil {
		dpSize = *cfg.DPSize
	}
	if dpSize < 1 {
		return nil, fmt.Errorf("%s::dp_size must be at least 1 (got %d)", key, dpSize)
	}
	endpoint, err := zmtp.ParseEndpoint(cfg.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("%s::endpoint: %w", key, err)
	}
	expanded, err := endpoint.Expand(dpSize)
	if err != nil {
		return nil, fmt.Errorf("%s::dp_size: %w", key, err)
	}
	return expanded, nil
}

func (cfg *Config) target(endpoint zmtp.Endpoint, settings *EndpointConfig) target {
	return target{
		endpoint:   endpoint,
		namespace:  firstSet(settings.Namespace, cfg.Namespace),
		component:  firstSet(settings.Component, cfg.Component),
		producerID: settings.ProducerID,
		backend:    firstSet(settings.Backend, cfg.Backend),
		attributes: settings.Attributes,
	}
}

func firstSet(value, fallback string) string {
	if value != "" {
		return value
	}
	return fallback
}
