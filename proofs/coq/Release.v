(** A certified release with discrete Gaussian noise is worth what is charged for it.

    The link between the certificate, the radius and the divergence: whatever was computed, if the
    integers were certified for the radius of a noise multiplier z, then noise with the lattice's
    variance makes the divergence of any two neighbours at most alpha / (2 z^2). *)

From Coq Require Import Reals List Lra Lia ZArith Psatz QArith Qreals.
From Weir Require Import Python Code Certificate Sums DiscreteGaussian Filter.
Import ListNotations.
Open Scope R_scope.

(** The first d integers of a list, and zeros if it is shorter, as a point. *)
Fixpoint point_of (d : nat) (l : vector) : point d :=
  match d with O => tt | S d => (hd 0%Z l, point_of d (tl l)) end.

Fixpoint moved (d : nat) : point d -> vector -> point d :=
  match d with O => fun _ _ => tt | S d => fun u l => ((fst u + hd 0 l)%Z, moved d (snd u) (tl l)) end.

Lemma sum_of_squares_hd l : (sum_of_squares l = hd 0 l * hd 0 l + sum_of_squares (tl l))%Z.
Proof. destruct l; reflexivity. Qed.

(** Two points of the ball are at most twice the radius apart. *)
Lemma distance_of_two d k k' :
  squared_distance d (point_of d k) (point_of d k') <= 2 * IZR (sum_of_squares k) + 2 * IZR (sum_of_squares k').
Proof.
  revert k k'. induction d as [ | d IH ]; intros k k'.
  - cbn. assert (H := IZR_le _ _ (squares_nonneg k)). assert (H' := IZR_le _ _ (squares_nonneg k')). lra.
  - cbn [point_of squared_distance fst snd]. specialize (IH (tl k) (tl k')).
    rewrite (sum_of_squares_hd k), (sum_of_squares_hd k'), !plus_IZR, !mult_IZR.
    assert (0 <= (IZR (hd 0%Z k) + IZR (hd 0%Z k')) ^ 2) by apply pow2_ge_0. nra.
Qed.

(** A sum moves by what one unit adds. *)
Lemma distance_of_sum d u k : squared_distance d (moved d u k) u <= IZR (sum_of_squares k).
Proof.
  revert u k. induction d as [ | d IH ]; intros u k.
  - cbn. apply (IZR_le 0), squares_nonneg.
  - cbn [moved squared_distance fst snd]. specialize (IH (snd u) (tl k)).
    rewrite (sum_of_squares_hd k), !plus_IZR, mult_IZR. nra.
Qed.

Lemma distance_symmetric d u v : squared_distance d u v = squared_distance d v u.
Proof. induction d as [ | d IH ]; cbn; [ reflexivity | ]. rewrite IH. ring. Qed.

Definition law (sigma t0 : R) (d : nat) : point d -> point d -> R := masses (/ (2 * sigma ^ 2)) t0 d.

(** A bound on distance over noise is one on the divergence, in any units that are large enough. *)
Lemma gaussian_bounded sigma t0 d u v alpha n ratio : 0 < sigma -> 1 < alpha ->
  sums_to (bell (/ (2 * sigma ^ 2)) 0) t0 ->
  squared_distance d u v <= ratio * sigma ^ 2 -> alpha * ratio / 2 <= IZR n / unit_size ->
  bounded alpha n (law sigma t0 d u) (law sigma t0 d v).
Proof.
  intros Hsigma Ha Ht0 Hd Hn. assert (Hpos := theta_pos _ _ _ Ht0). split.
  - intros x _. now apply masses_pos.
  - intros l Hl. destruct (gaussian_renyi sigma t0 alpha d u v Hsigma Ht0) as (s & Hs & Hle).
    apply Rle_trans with s.
    + rewrite (finite_sum_ext _ (fun x => moment alpha (law sigma t0 d u x) (law sigma t0 d v x))).
      * now apply sums_upper.
      * intros x. unfold part, moment. destruct (Rlt_dec 0 (law sigma t0 d u x)) as [_ | H]; [ reflexivity | ].
        exfalso. apply H. now apply masses_pos.
    + eapply Rle_trans; [ exact Hle | ]. apply exp_le_exp. apply Rmult_le_compat_l; [ lra | ].
      eapply Rle_trans; [ | exact Hn ].
      assert (Hs2 : 0 < sigma ^ 2) by (apply pow_lt; lra).
      apply (Rmult_le_reg_r (2 * sigma ^ 2)); [ lra | ].
      replace (alpha * squared_distance d u v / (2 * sigma ^ 2) * (2 * sigma ^ 2))
        with (alpha * squared_distance d u v) by (field; lra).
      replace (alpha * ratio / 2 * (2 * sigma ^ 2)) with (alpha * (ratio * sigma ^ 2)) by field.
      apply Rmult_le_compat_l; lra.
Qed.

(** The charge: at least alpha / (2 z^2), in units. *)
Definition covers (z : Q) (alpha : R) (n : Z) : Prop := alpha / (2 * Q2R z ^ 2) <= IZR n / unit_size.

Lemma radius_over_noise q b r sigma : lattice_radius q b = Some r -> sigma ^ 2 = IZR LATTICE_VARIANCE ->
  IZR (b * r) ^ 2 <= / Q2R q ^ 2 * sigma ^ 2 /\ 0 < Q2R q.
Proof.
  intros Hr Hsigma. destruct (lattice_radius_sound q b r Hr) as (_ & _ & Hn & H).
  apply IZR_le in H. rewrite !Z.pow_2_r, !mult_IZR in H.
  assert (Hn' : 0 < IZR (Qnum q)) by (now apply IZR_lt).
  assert (Hd' : 0 < IZR (Zpos (Qden q))) by (apply IZR_lt; lia).
  assert (Hq : Q2R q = IZR (Qnum q) / IZR (Zpos (Qden q))) by reflexivity.
  split; [ | rewrite Hq; now apply Rdiv_lt_0_compat ].
  rewrite Hsigma, Hq. rewrite mult_IZR.
  apply (Rmult_le_reg_r (IZR (Qnum q) ^ 2)); [ now apply pow_lt | ].
  replace (/ (IZR (Qnum q) / IZR (Zpos (Qden q))) ^ 2 * IZR LATTICE_VARIANCE * IZR (Qnum q) ^ 2)
    with (IZR LATTICE_VARIANCE * (IZR (Zpos (Qden q)) * IZR (Zpos (Qden q)))) by (field; lra).
  eapply Rle_trans; [ | exact H ]. right. ring.
Qed.

(** Any two certified vectors, which is what two neighbours' batches give at most. *)
Theorem certified_release q r k k' sigma t0 d alpha n :
  lattice_radius q 2 = Some r -> is_certified k r = true -> is_certified k' r = true ->
  0 < sigma -> sigma ^ 2 = IZR LATTICE_VARIANCE -> sums_to (bell (/ (2 * sigma ^ 2)) 0) t0 ->
  1 < alpha -> covers q alpha n ->
  bounded alpha n (law sigma t0 d (point_of d k)) (law sigma t0 d (point_of d k')).
Proof.
  intros Hr Hk Hk' Hsigma Hvar Ht0 Ha Hn.
  destruct (radius_over_noise q 2 r sigma Hr Hvar) as (Hratio & Hq).
  destruct (lattice_radius_sound q 2 r Hr) as (Hrange & _).
  rewrite is_certified_exact in Hk, Hk' by exact Hrange. apply Z.leb_le in Hk, Hk'.
  apply (gaussian_bounded sigma t0 d _ _ alpha n (/ Q2R q ^ 2)); auto.
  - eapply Rle_trans; [ apply distance_of_two | ]. eapply Rle_trans; [ | exact Hratio ].
    apply IZR_le in Hk, Hk'. rewrite Z.pow_2_r, mult_IZR in Hk, Hk'. rewrite mult_IZR. nra.
  - eapply Rle_trans; [ | exact Hn ]. right. field. lra.
Qed.

(** A sum that differs by one certified vector, in either direction. *)
Theorem certified_sum q r k sigma t0 d (u : point d) alpha n :
  lattice_radius q 1 = Some r -> is_certified k r = true ->
  0 < sigma -> sigma ^ 2 = IZR LATTICE_VARIANCE -> sums_to (bell (/ (2 * sigma ^ 2)) 0) t0 ->
  1 < alpha -> covers q alpha n ->
  bounded alpha n (law sigma t0 d (moved d u k)) (law sigma t0 d u) /\
  bounded alpha n (law sigma t0 d u) (law sigma t0 d (moved d u k)).
Proof.
  intros Hr Hk Hsigma Hvar Ht0 Ha Hn.
  destruct (radius_over_noise q 1 r sigma Hr Hvar) as (Hratio & Hq).
  destruct (lattice_radius_sound q 1 r Hr) as (Hrange & _).
  rewrite is_certified_exact in Hk by exact Hrange. apply Z.leb_le in Hk.
  assert (Hd : squared_distance d (moved d u k) u <= / Q2R q ^ 2 * sigma ^ 2).
  { eapply Rle_trans; [ apply distance_of_sum | ]. eapply Rle_trans; [ | exact Hratio ].
    apply IZR_le in Hk. rewrite Z.pow_2_r, mult_IZR in Hk. rewrite mult_IZR. nra. }
  assert (Hunits : alpha * / Q2R q ^ 2 / 2 <= IZR n / unit_size).
  { eapply Rle_trans; [ | exact Hn ]. right. field. lra. }
  split; apply (gaussian_bounded sigma t0 d _ _ alpha n (/ Q2R q ^ 2)); auto.
  rewrite distance_symmetric. exact Hd.
Qed.
