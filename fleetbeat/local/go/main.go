// Command fleetbeat-local is a whole Kubernetes control plane and an OCI registry in one binary, for tests, the
// demo and trying Fleetbeat on one machine. Each subcommand is the real component with its own flags:
//
//	fleetbeat-local etcd | kube-apiserver | kube-controller-manager | kube-scheduler | kwok | registry  FLAGS…
//	fleetbeat-local kwok-stages      prints the stages kwok needs to play kubelets (node and pod life cycle)
//	fleetbeat-local htpasswd USER    reads a password from stdin and prints the line the registry's basic auth wants
//
// fleetbeat/local/cluster.py starts them with the right flags; nothing here is meant for production.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	_ "time/tzdata" // CronJobs with a time zone

	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/auth/token"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"golang.org/x/crypto/bcrypt"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodeheartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

// components maps a subcommand to its entry point; each returns the process's exit code.
var components = map[string]func() int{
	"etcd":                    runEtcd,
	"kube-apiserver":          func() int { return runKubernetes(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return runKubernetes(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return runKubernetes(scheduler.NewSchedulerCommand()) },
	"kwok":                    runKwok,
	"kwok-stages":             printKwokStages,
	"htpasswd":                printHtpasswd,
	"registry":                runRegistry,
}

func main() {
	if len(os.Args) < 2 || components[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: fleetbeat-local etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kwok|kwok-stages|registry|htpasswd [flags]")
		os.Exit(2)
	}
	run := components[os.Args[1]]
	// Every component parses os.Args for itself and expects to be the program. Its name becomes the User-Agent, and
	// that the field manager of what the controllers write: it has to be the one real clusters show.
	os.Args = os.Args[1:]
	os.Exit(run())
}

func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

// runKubernetes goes through component-base, which sets up logging and flag normalisation as the real binaries do.
func runKubernetes(command *cobra.Command) int {
	return cli.Run(command)
}

// runRegistry uses plain cobra: component-base's -v would clash with the registry's own --version.
func runRegistry() int {
	if err := registry.RootCmd.Execute(); err != nil {
		return 1
	}
	return 0
}

// runKwok repeats what kwok's main does, on a fresh flag set: the Kubernetes packages linked here have already
// registered flags of the same names on the shared one.
func runKwok() int {
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, _ := kwoklog.InitFlags(signals.SetupSignalContext(), flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		return 1
	}
	command := kwok.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(flags)
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		return 1
	}
	return 0
}

// printKwokStages writes the stages kwok ships as one YAML stream: without them it leaves nodes and pods alone.
func printKwokStages() int {
	fmt.Println(strings.Join([]string{
		nodefast.DefaultNodeInit,
		nodeheartbeat.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady,
		podfast.DefaultPodComplete,
		podfast.DefaultPodDelete,
	}, "\n---\n"))
	return 0
}

// printHtpasswd is here because the registry takes bcrypt only, and Python's standard library has none. The lowest
// cost is right for throw-away passwords: every request of a test pays it.
func printHtpasswd() int {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: fleetbeat-local htpasswd USER < password")
		return 2
	}
	password, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "htpasswd:", err)
		return 1
	}
	hash, err := bcrypt.GenerateFromPassword(password, bcrypt.MinCost)
	if err != nil {
		fmt.Fprintln(os.Stderr, "htpasswd:", err)
		return 1
	}
	fmt.Printf("%s:%s\n", os.Args[1], hash)
	return 0
}
