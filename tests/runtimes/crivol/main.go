// SPDX-License-Identifier: Apache-2.0

// crivol makes the calls that a kubelet makes for a pod with an image volume (Container Runtime Interface v1).
//
//	crivol SOCKET ready
//	crivol SOCKET run VOLUME SUBPATH BASE COMMAND...
//
// run pulls the image VOLUME, starts a container of the image BASE that sees it at /m, and prints what the container
// wrote. SUBPATH may be empty. Exit status 1 and "CALL: why" on stderr when the runtime refuses one of the calls.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type runtime struct {
	images cri.ImageServiceClient
	pods   cri.RuntimeServiceClient
}

func main() {
	output, err := called(os.Args[1], os.Args[2], os.Args[3:])
	os.Stdout.Write(output)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func called(socket, verb string, arguments []string) ([]byte, error) {
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	r := runtime{cri.NewImageServiceClient(connection), cri.NewRuntimeServiceClient(connection)}
	if verb == "ready" {
		version, err := r.pods.Version(ctx, &cri.VersionRequest{}, grpc.WaitForReady(true))
		return []byte(version.GetRuntimeVersion()), err
	}
	return r.run(ctx, arguments[0], arguments[1], arguments[2], arguments[3:])
}

func (r runtime) run(ctx context.Context, volume, subPath, base string, command []string) ([]byte, error) {
	reference, err := r.pull(ctx, volume)
	if err != nil {
		return nil, err
	}
	if _, err := r.pull(ctx, base); err != nil {
		return nil, err
	}
	logs, err := os.MkdirTemp("", "crivol")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(logs)
	host := &cri.NamespaceOption{Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_CONTAINER}
	name := strconv.FormatInt(time.Now().UnixNano(), 36)
	pod := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Uid: name, Namespace: "test"},
		LogDirectory: logs,
		Linux: &cri.LinuxPodSandboxConfig{
			SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: host},
		},
	}
	sandbox, err := r.pods.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: pod})
	if err != nil {
		return nil, fmt.Errorf("RunPodSandbox: %w", err)
	}
	// The kubelet's cleaning up; containers of the sandbox go with it.
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		r.pods.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: sandbox.PodSandboxId})
		r.pods.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: sandbox.PodSandboxId})
	}()
	container, err := r.pods.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId:  sandbox.PodSandboxId,
		SandboxConfig: pod,
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: "look"},
			Image:    &cri.ImageSpec{Image: base, UserSpecifiedImage: base},
			Command:  command,
			LogPath:  "log",
			Linux: &cri.LinuxContainerConfig{
				SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: host},
			},
			Mounts: []*cri.Mount{{
				ContainerPath: "/m",
				Readonly:      true,
				Image:         &cri.ImageSpec{Image: reference, UserSpecifiedImage: volume},
				ImageSubPath:  subPath,
			}},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("CreateContainer: %w", err)
	}
	if _, err := r.pods.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: container.ContainerId}); err != nil {
		return nil, fmt.Errorf("StartContainer: %w", err)
	}
	code, err := r.ended(ctx, container.ContainerId)
	if err != nil {
		return nil, fmt.Errorf("ContainerStatus: %w", err)
	}
	output, err := written(filepath.Join(logs, "log"))
	if err == nil && code != 0 {
		err = fmt.Errorf("%s: exit status %d", command[0], code)
	}
	return output, err
}

func (r runtime) pull(ctx context.Context, image string) (string, error) {
	pulled, err := r.images.PullImage(ctx, &cri.PullImageRequest{Image: &cri.ImageSpec{Image: image}})
	if err != nil {
		return "", fmt.Errorf("PullImage: %w", err)
	}
	return pulled.ImageRef, nil
}

func (r runtime) ended(ctx context.Context, container string) (int32, error) {
	for {
		answer, err := r.pods.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: container})
		if err != nil {
			return 0, err
		}
		if answer.Status.State == cri.ContainerState_CONTAINER_EXITED {
			return answer.Status.ExitCode, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// written undoes the log format of the CRI: lines "TIME STREAM TAG TEXT", where the tag P says that the line goes on.
func written(path string) ([]byte, error) {
	log, err := os.ReadFile(path)
	var output []byte
	for _, line := range bytes.Split(log, []byte("\n")) {
		if fields := bytes.SplitN(line, []byte(" "), 4); len(fields) == 4 {
			output = append(output, fields[3]...)
			if string(fields[2]) == "F" {
				output = append(output, '\n')
			}
		}
	}
	return output, err
}
