{{- define "attnd.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* RELEASE-attnd, or RELEASE if it says attnd already. */ -}}
{{- define "attnd.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "attnd.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "attnd.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "attnd.selectorLabels" -}}
app.kubernetes.io/name: {{ include "attnd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end }}

{{- define "attnd.commonLabels" -}}
app.kubernetes.io/name: {{ include "attnd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "attnd.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "attnd.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "attnd.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "attnd.tlsSecret" -}}
{{- default (printf "%s-tls" (include "attnd.fullname" .)) .Values.tls.secretName }}
{{- end }}

{{- /* The kubelet probes in plain text: with TLS on, beside it. */ -}}
{{- define "attnd.healthPort" -}}
{{- if .Values.tls.enabled }}50052{{ else }}50051{{ end }}
{{- end }}

{{- /* preStop, drain delay, the calls in flight, and 5 s to end the process. */ -}}
{{- define "attnd.terminationGraceSeconds" -}}
{{- add (mul 2 .Values.forgetSeconds) .Values.deadlineSeconds 5 }}
{{- end }}

{{- define "attnd.config" -}}
{{- $listener := dict "address" "0.0.0.0:50051" }}
{{- if .Values.tls.enabled }}
{{- $tls := dict "certificate_file" "/etc/attnd-tls/tls.crt" "key_file" "/etc/attnd-tls/tls.key" "health_address" "0.0.0.0:50052" }}
{{- if .Values.tls.clientCa }}
{{- $_ := set $tls "client_ca_file" "/etc/attnd-tls/ca.crt" }}
{{- end }}
{{- $_ := set $listener "tls" $tls }}
{{- end }}
{{- $computed := dict
      "listeners" (list $listener)
      "admin" (dict "address" "0.0.0.0:9464")
      "limits" (dict "deadline_seconds" .Values.deadlineSeconds)
      "drain" (dict "delay_seconds" .Values.forgetSeconds "grace_seconds" .Values.deadlineSeconds)
      "encodings" .Values.encodings }}
{{- if .Values.bearerToken.secretName }}
{{- $_ := set $computed "security" (dict "bearer_token_file" (printf "/etc/attnd-token/%s" .Values.bearerToken.key)) }}
{{- end }}
{{- mergeOverwrite (deepCopy .Values.config) $computed | toYaml }}
{{- end }}

{{- /* What selects this release's series; the same in rules and queries. */ -}}
{{- define "attnd.seriesSelector" -}}
job="{{ .Release.Name }}", namespace="{{ .Release.Namespace }}"
{{- end }}
