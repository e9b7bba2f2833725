// An ordinary program around fargo: `fargo URL APPLICATION json|xml`. It renews itself and registers where it is not known,
// which fargo leaves to its users. Speaks JSON lines; see Program in harness.py.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hudl/fargo"
	"github.com/op/go-logging"
)

const (
	beats    = 300 * time.Millisecond
	lease    = 3
	unknown  = 404
	mates    = "MATES"
	complain = logging.CRITICAL
)

// What the suite asks for: a command and its arguments.
type words struct {
	Ask   int    `json:"ask"`
	Do    string `json:"do"`
	App   string `json:"app"`
	ID    string `json:"id"`
	VIP   string `json:"vip"`
	Key   string `json:"key"`
	Value string `json:"value"`
}

// One instance, the connection that it uses, and what it looks at all the time.
type program struct {
	lock   sync.Mutex
	wire   fargo.EurekaConnection
	self   fargo.Instance
	source *fargo.AppSource
	leave  chan struct{}
	left   sync.WaitGroup
}

var out sync.Mutex

func say(what map[string]any) {
	out.Lock()
	defer out.Unlock()
	line, _ := json.Marshal(what)
	fmt.Println(string(line))
}

func main() {
	logging.SetLevel(complain, "fargo")
	p := &program{wire: fargo.NewConn(strings.TrimSuffix(os.Args[1], "/")), leave: make(chan struct{})}
	p.wire.UseJson = os.Args[3] == "json"
	p.wire.PollInterval = beats
	p.self = fargo.Instance{
		InstanceId: "fargo:" + os.Args[2] + ":1", App: os.Args[2], HostName: "127.0.0.1", IPAddr: "127.0.0.1",
		Port: 9201, PortEnabled: true, VipAddress: "fargo-vip", SecureVipAddress: "fargo-svip",
		HomePageUrl: "http://127.0.0.1:9201/?a=1&b=2", Status: fargo.UP,
		DataCenterInfo: fargo.DataCenterInfo{Name: fargo.MyOwn},
		LeaseInfo:      fargo.LeaseInfo{RenewalIntervalInSecs: 1, DurationInSecs: lease},
	}
	p.self.SetMetadataString("a_b", "c&d <e>")
	p.self.SetMetadataString("team.name", "bars")
	if err := p.wire.RegisterInstance(&p.self); err != nil {
		say(map[string]any{"failed": err.Error()})
		os.Exit(1)
	}
	p.source = p.wire.NewAppSource(mates, false)
	p.left.Add(1)
	go p.keep()
	say(map[string]any{"started": true})
	p.listen()
}

// Renews until it leaves, and registers where it is told that nobody knows it.
func (p *program) keep() {
	defer p.left.Done()
	ticker := time.NewTicker(beats)
	defer ticker.Stop()
	for {
		select {
		case <-p.leave:
			return
		case <-ticker.C:
			p.beat()
		}
	}
}

func (p *program) beat() {
	p.lock.Lock()
	defer p.lock.Unlock()
	code, _ := fargo.HTTPResponseStatusCode(p.wire.HeartBeatInstance(&p.self))
	if code == unknown {
		_ = p.wire.ReregisterInstance(&p.self)
	}
}

func (p *program) listen() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var told words
		if err := json.Unmarshal(lines.Bytes(), &told); err != nil {
			say(map[string]any{"failed": err.Error()})
			os.Exit(1)
		}
		result, err := p.do(told)
		answer := map[string]any{"answer": told.Ask, "result": result}
		if err != nil {
			answer = map[string]any{"answer": told.Ask, "error": err.Error()}
		}
		say(answer)
		if told.Do == "stop" {
			return
		}
	}
	os.Exit(1)
}

func (p *program) do(told words) (any, error) {
	switch told.Do {
	case "held":
		return p.held()
	case "mates":
		return p.mates(), nil
	case "self":
		p.lock.Lock()
		defer p.lock.Unlock()
		return shown(&p.self), nil
	case "instance":
		one, err := p.wire.GetInstance(told.App, told.ID)
		code, _ := fargo.HTTPResponseStatusCode(err)
		if code == unknown {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return shown(one), nil
	case "vip":
		found, err := p.wire.GetInstancesByVIPAddress(told.VIP, strings.Contains(told.VIP, "svip"), fargo.ThatAreUp)
		ids := []string{}
		for _, one := range found {
			ids = append(ids, one.InstanceId)
		}
		return ids, err
	case "status":
		return nil, p.wire.UpdateInstanceStatus(&p.self, fargo.StatusType(told.Value))
	case "metadata":
		p.lock.Lock()
		defer p.lock.Unlock()
		return nil, p.wire.AddMetadataString(&p.self, told.Key, told.Value)
	case "stop":
		close(p.leave)
		p.left.Wait()
		p.source.Stop()
		return nil, p.wire.DeregisterInstance(&p.self)
	}
	return nil, fmt.Errorf("%q is no command", told.Do)
}

// Everything in the server's list, by application and id.
func (p *program) held() (any, error) {
	apps, err := p.wire.GetApps()
	found := map[string]string{}
	for name, app := range apps {
		for _, one := range app.Instances {
			found[name+"/"+one.InstanceId] = string(one.Status)
		}
	}
	return found, err
}

// What the source that polls an application has seen last.
func (p *program) mates() any {
	found := map[string]any{}
	if app := p.source.Latest(); app != nil {
		for _, one := range app.Instances {
			found[one.InstanceId] = one.Metadata.GetMap()["round"]
		}
	}
	return found
}

func shown(one *fargo.Instance) any {
	_, _ = one.Metadata.GetString("")
	return map[string]any{
		"id": one.InstanceId, "app": one.App, "host": one.HostName, "address": one.IPAddr, "status": one.Status,
		"overridden": one.Overriddenstatus, "port": one.Port, "enabled": one.PortEnabled,
		"secure": one.SecurePort, "secured": one.SecurePortEnabled, "vip": one.VipAddress, "svip": one.SecureVipAddress,
		"home": one.HomePageUrl, "country": one.CountryId, "center": one.DataCenterInfo.Name,
		"renewal": one.LeaseInfo.RenewalIntervalInSecs, "duration": one.LeaseInfo.DurationInSecs,
		"metadata": one.Metadata.GetMap(),
	}
}
