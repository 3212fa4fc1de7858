// SPDX-License-Identifier: Apache-2.0

// Command pulumi-language-python is a Pulumi language host for Python programs,
// policy packs and component plugins, built on the toolchain package of the Pulumi SDK.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	pulumisdk "github.com/pulumi/pulumi/sdk/v3"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	"github.com/pulumi/pulumi/sdk/v3/go/common/version"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"github.com/pulumi/pulumi/sdk/v3/python/toolchain"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Exit code with which the executor says that it has already shown the error.
const exitErrorShown = 32

type host struct {
	pulumirpc.UnimplementedLanguageRuntimeServer
	executor string
	engine   string
	ctx      context.Context
	cancel   context.CancelFunc
}

func options(info *pulumirpc.ProgramInfo, plugin bool) (toolchain.PythonOptions, error) {
	o := toolchain.PythonOptions{Root: info.RootDirectory, ProgramDir: info.ProgramDirectory}
	m := info.Options.AsMap()
	if v, ok := m["virtualenv"].(string); ok {
		o.Virtualenv = v
		if !filepath.IsAbs(v) {
			o.Virtualenv = filepath.Join(info.RootDirectory, v)
		}
	} else if plugin {
		o.Virtualenv = filepath.Join(info.RootDirectory, "venv")
	}
	switch v, _ := m["toolchain"].(string); v {
	case "", "pip":
		o.Toolchain = toolchain.Pip
	case "uv":
		o.Toolchain = toolchain.Uv
	case "poetry":
		o.Toolchain = toolchain.Poetry
	default:
		return o, fmt.Errorf("unknown python toolchain %q", v)
	}
	return o, nil
}

// resolve returns the toolchain (pip, uv or poetry) of a program or plugin.
func resolve(info *pulumirpc.ProgramInfo, plugin bool) (toolchain.Toolchain, toolchain.PythonOptions, error) {
	o, err := options(info, plugin)
	if err != nil {
		return nil, o, err
	}
	tc, err := toolchain.ResolveToolchain(o)
	return tc, o, err
}

func (h *host) Handshake(_ context.Context, r *pulumirpc.LanguageHandshakeRequest) (*pulumirpc.LanguageHandshakeResponse, error) {
	h.engine = r.EngineAddress
	return &pulumirpc.LanguageHandshakeResponse{}, nil
}

func (h *host) GetPluginInfo(context.Context, *emptypb.Empty) (*pulumirpc.PluginInfo, error) {
	return &pulumirpc.PluginInfo{Version: version.Version}, nil
}

func (h *host) Cancel(context.Context, *emptypb.Empty) (*emptypb.Empty, error) {
	h.cancel()
	return &emptypb.Empty{}, nil
}

// GetRequiredPackages lists the provider plugins of the packages in the program's environment.
func (h *host) GetRequiredPackages(ctx context.Context, r *pulumirpc.GetRequiredPackagesRequest) (*pulumirpc.GetRequiredPackagesResponse, error) {
	tc, _, err := resolve(r.Info, false)
	if err != nil {
		return nil, err
	}
	const script = `import json,importlib.metadata as m
out=[]
for d in m.distributions():
    for f in d.files or ():
        if f.name=="pulumi-plugin.json":
            out.append({"dist":d.version, **json.loads(d.locate_file(f).read_text())})
print(json.dumps(out))`
	cmd, err := tc.Command(ctx, "-c", script)
	if err != nil {
		return nil, err
	}
	raw, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the Pulumi packages of the program: %w", err)
	}
	var found []struct {
		Dist, Name, Version, Server string
		Resource                    bool
	}
	if err := json.Unmarshal(raw, &found); err != nil {
		return nil, err
	}
	resp := &pulumirpc.GetRequiredPackagesResponse{}
	for _, p := range found {
		if !p.Resource {
			continue
		}
		v := p.Version
		if v == "" {
			v = p.Dist
		}
		resp.Packages = append(resp.Packages, &pulumirpc.PackageDependency{
			Name: p.Name, Kind: string(apitype.ResourcePlugin), Version: "v" + strings.TrimPrefix(v, "v"), Server: p.Server})
	}
	return resp, nil
}

// InstallDependencies installs what a program or a component plugin requires (`pulumi install`, package use).
func (h *host) InstallDependencies(r *pulumirpc.InstallDependenciesRequest, srv pulumirpc.LanguageRuntime_InstallDependenciesServer) error {
	tc, _, err := resolve(r.Info, r.IsPlugin)
	if err != nil {
		return err
	}
	closer, stdout, stderr, err := rpcutil.MakeInstallDependenciesStreams(srv, r.IsTerminal)
	if err != nil {
		return err
	}
	defer closer.Close()
	return tc.InstallDependencies(srv.Context(), r.Info.ProgramDirectory, r.UseLanguageVersionTools, true, stdout, stderr)
}

// About reports the Python in use (`pulumi about`).
func (h *host) About(ctx context.Context, r *pulumirpc.AboutRequest) (*pulumirpc.AboutResponse, error) {
	info := r.GetInfo()
	if info == nil {
		info = &pulumirpc.ProgramInfo{}
	}
	tc, o, err := resolve(info, false)
	if err != nil {
		return nil, err
	}
	about, err := tc.About(ctx)
	if err != nil {
		return nil, err
	}
	return &pulumirpc.AboutResponse{Executable: about.PythonExecutable, Version: about.PythonVersion.String(),
		Metadata: map[string]string{"toolchain": toolchain.Name(o.Toolchain)}}, nil
}

// GetProgramDependencies lists the packages installed for a program (`pulumi about`).
func (h *host) GetProgramDependencies(ctx context.Context, r *pulumirpc.GetProgramDependenciesRequest) (*pulumirpc.GetProgramDependenciesResponse, error) {
	tc, _, err := resolve(r.Info, false)
	if err != nil {
		return nil, err
	}
	found, err := tc.ListPackages(ctx, r.TransitiveDependencies)
	if err != nil {
		return nil, fmt.Errorf("list the packages of the program: %w", err)
	}
	resp := &pulumirpc.GetProgramDependenciesResponse{}
	for _, d := range found {
		resp.Dependencies = append(resp.Dependencies, &pulumirpc.DependencyInfo{Name: d.Name, Version: d.Version})
	}
	return resp, nil
}

// Run executes a program with the executor script.
func (h *host) Run(ctx context.Context, r *pulumirpc.RunRequest) (*pulumirpc.RunResponse, error) {
	tc, _, err := resolve(r.Info, false)
	if err != nil {
		return nil, err
	}
	if err := tc.ValidateVenv(ctx); err != nil {
		return nil, err
	}
	args := []string{h.executor}
	add := func(k, v string) {
		if v != "" {
			args = append(args, "--"+k, v)
		}
	}
	add("monitor", r.GetMonitorAddress())
	add("engine", h.engine)
	add("project", r.GetProject())
	add("root_directory", r.GetInfo().RootDirectory)
	add("stack", r.GetStack())
	add("pwd", r.GetPwd())
	add("dry_run", strconv.FormatBool(r.GetDryRun()))
	add("parallel", strconv.Itoa(int(r.GetParallel())))
	add("organization", r.GetOrganization())
	args = append(append(args, r.Info.EntryPoint), r.GetArgs()...)

	values := r.GetConfig()
	if values == nil {
		values = map[string]string{}
	}
	config, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	secrets, err := json.Marshal(append([]string{}, r.GetConfigSecretKeys()...))
	if err != nil {
		return nil, err
	}
	runCtx, stop := context.WithCancel(h.ctx)
	defer stop()
	context.AfterFunc(ctx, stop)
	cmd, err := tc.Command(runCtx, args...)
	if err != nil {
		return nil, err
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, "PULUMI_CONFIG="+string(config), "PULUMI_CONFIG_SECRET_KEYS="+string(secrets))
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return &pulumirpc.RunResponse{}, nil
	case errors.As(err, &exit) && exit.ExitCode() == exitErrorShown:
		return &pulumirpc.RunResponse{Bail: true}, nil
	case errors.As(err, &exit):
		return &pulumirpc.RunResponse{Error: fmt.Sprintf("program exited with code %d", exit.ExitCode())}, nil
	default:
		return &pulumirpc.RunResponse{Error: fmt.Sprintf("cannot run the program: %v", err)}, nil
	}
}

// RunPlugin starts a policy pack or a component plugin.
func (h *host) RunPlugin(r *pulumirpc.RunPluginRequest, srv pulumirpc.LanguageRuntime_RunPluginServer) error {
	ctx := srv.Context()
	policy := r.Kind == string(apitype.AnalyzerPlugin)
	tc, o, err := resolve(r.Info, !policy)
	if err != nil {
		return err
	}
	var cmd *exec.Cmd
	switch _, statErr := os.Stat(filepath.Join(o.Root, "__main__.py")); {
	case policy:
		args := append([]string{"-u", "-m", "pulumi.policy"}, r.Args...)
		cmd, err = tc.Command(ctx, append(args, r.Info.ProgramDirectory)...)
	case statErr == nil:
		cmd, err = tc.Command(ctx, append([]string{r.Info.ProgramDirectory}, r.Args...)...)
	default:
		var project toolchain.Pyproject
		if project, err = toolchain.LoadPyproject(o.Root); err != nil {
			return fmt.Errorf("plugin has neither __main__.py nor pyproject.toml: %w", err)
		}
		cmd, err = tc.ModuleCommand(ctx, "pulumi.run.plugin", append([]string{project.Project.Name}, r.Args...)...)
	}
	if err != nil {
		return err
	}
	closer, stdout, stderr, err := rpcutil.MakeRunPluginStreams(srv, false)
	if err != nil {
		return err
	}
	defer closer.Close()
	cmd.Dir = r.Pwd
	var proxy *pulumisdk.PolicyProxy
	if policy {
		cmd.Dir = r.Info.ProgramDirectory
		if proxy, stdout, err = pulumisdk.NewPolicyProxy(ctx, stdout); err != nil {
			return err
		}
		conf, err := proxy.AwaitConfiguration(ctx)
		if err != nil {
			return err
		}
		if conf != nil {
			cmd.Env = append(cmd.Env, "PULUMI_ORGANIZATION="+conf.Organization, "PULUMI_PROJECT="+conf.Project,
				"PULUMI_STACK="+conf.Stack, "PULUMI_DRY_RUN="+strconv.FormatBool(conf.DryRun))
			if conf.Config != nil { // an absent configuration must stay absent: "null" is not a JSON object
				raw, err := json.Marshal(conf.Config)
				if err != nil {
					return err
				}
				cmd.Env = append(cmd.Env, "PULUMI_CONFIG="+string(raw))
			}
		}
	}
	cmd.Env = append(cmd.Env, r.Env...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	if proxy != nil {
		return proxy.Attach(ctx, cmd)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return srv.Send(&pulumirpc.RunPluginResponse{
			Output: &pulumirpc.RunPluginResponse_Exitcode{Exitcode: int32(exit.ExitCode())}})
	}
	return err
}

func main() {
	exe, err := os.Executable()
	if err != nil {
		fail(err)
	}
	executor := filepath.Join(filepath.Dir(exe), "pulumi-language-python-exec")
	if _, err := os.Stat(executor); err != nil {
		fail(err)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	h := &host{executor: executor, ctx: ctx, cancel: cancel}
	for _, a := range os.Args[1:] {
		if !strings.HasPrefix(a, "-") {
			h.engine = a
		}
	}
	done := make(chan bool)
	go func() { <-ctx.Done(); close(done) }()
	handle, err := rpcutil.ServeWithOptions(rpcutil.ServeOptions{
		Cancel: done,
		Init: func(s *grpc.Server) error {
			pulumirpc.RegisterLanguageRuntimeServer(s, h)
			return nil
		},
	})
	if err != nil {
		fail(err)
	}
	if h.engine != "" {
		if err := rpcutil.Healthcheck(ctx, h.engine, 5*time.Minute, cancel); err != nil {
			fail(err)
		}
	}
	fmt.Printf("%d\n", handle.Port)
	if err := <-handle.Done; err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "pulumi-language-python:", err)
	os.Exit(1)
}
