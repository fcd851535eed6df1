(** A certified Gaussian release with its charge is one that the filter's theorem is about.

    So the theorem is not empty: its hypotheses hold for what the code does, for any sequence of such
    releases that an analyst may think of. *)

From Coq Require Import Reals List Lra Lia ZArith QArith Qreals.
From Weir Require Import Python Code Certificate Sums DiscreteGaussian Filter Release Ledger.
Import ListNotations.
Open Scope R_scope.

Lemma orders_above_one : Forall (fun a => 1 < Q2R a) ORDERS.
Proof. unfold ORDERS. repeat constructor; unfold Q2R; cbn; lra. Qed.

(** What the ledger charges of one Gaussian release of multiplier z. *)
Definition gaussian_charge (z : Q) (c : Cost) : Prop :=
  Forall2 (fun a s => exists n, s = Some n /\ (1 <= n)%Z /\ covers z (Q2R a) n) ORDERS c.

(** The float alpha / (2 z^2), whatever its rounding below 1e-10, becomes such a charge. *)
Theorem rounded_charge z alpha rho n : alpha / (2 * Q2R z ^ 2) <= Q2R rho * (1 + / 10 ^ 9) ->
  round_up (finite rho) = Some n -> (1 <= n)%Z /\ covers z alpha n.
Proof. intros Hrho Hn. destruct (round_up_sound rho n _ Hn Hrho) as [H H1]. split; assumption. Qed.

Lemma charge_of_law z c shares sigma t0 d u v : gaussian_charge z c -> length shares = length ORDERS ->
  0 < t0 ->
  (forall a n, 1 < a -> covers z a n -> bounded a n (law sigma t0 d u) (law sigma t0 d v)) ->
  stands_for (with_shares shares) c (law sigma t0 d u) (law sigma t0 d v).
Proof.
  intros Hc Hlen Ht0 Hbound. unfold stands_for.
  assert (Hclen : length c = length ORDERS) by (symmetry; apply (same_length _ _ _ Hc)).
  assert (Hnonempty : exists n, In (Some n) c /\ (1 <= n)%Z).
  { destruct c as [ | s c ]; [ discriminate | ]. inversion Hc as [ | ? ? ? ? (n & -> & Hn & _) _ ]; subst.
    exists n. split; [ now left | exact Hn ]. }
  repeat split.
  - unfold with_shares. rewrite combine_length, map_length. lia.
  - clear - Hc. induction Hc as [ | a s orders c (n & -> & Hn & _) Hc IH ]; constructor; [ lia | exact IH ].
  - intros x. now apply Rlt_le, masses_pos.
  - intros x. now apply Rlt_le, masses_pos.
  - intros Hz. exfalso. rewrite is_zero_spec, Forall_forall in Hz.
    destruct Hnonempty as (n & Hin & Hn). specialize (Hz _ Hin). injection Hz as Hz. lia.
  - unfold with_shares. assert (Ha := orders_above_one). clear Hclen Hnonempty. unfold gaussian_charge in Hc.
    revert Hlen Hc Ha. generalize ORDERS. intros orders. revert shares c.
    induction orders as [ | a orders IH ]; intros [ | w shares ] c Hlen Hc Ha; try discriminate.
    + inversion Hc; subst. constructor.
    + inversion Hc as [ | ? s ? c' (n & -> & _ & Hn) Hc' ]; subst. inversion Ha as [ | ? ? Ha1 Ha' ]; subst.
      cbn [map combine]. constructor; [ cbn [fst]; now apply Hbound | ]. apply IH; auto.
Qed.

Theorem certified_release_is_charged z r k k' sigma t0 d c shares :
  lattice_radius z 2 = Some r -> is_certified k r = true -> is_certified k' r = true ->
  0 < sigma -> sigma ^ 2 = IZR LATTICE_VARIANCE -> sums_to (bell (/ (2 * sigma ^ 2)) 0) t0 ->
  gaussian_charge z c -> length shares = length ORDERS ->
  stands_for (with_shares shares) c (law sigma t0 d (point_of d k)) (law sigma t0 d (point_of d k')).
Proof.
  intros Hr Hk Hk' Hsigma Hvar Ht0 Hc Hlen.
  apply (charge_of_law z); auto.
  - apply (theta_pos _ _ _ Ht0).
  - intros a n Ha Hn. now apply (certified_release z r).
Qed.

Theorem certified_sum_is_charged z r k sigma t0 d (u : point d) c shares :
  lattice_radius z 1 = Some r -> is_certified k r = true ->
  0 < sigma -> sigma ^ 2 = IZR LATTICE_VARIANCE -> sums_to (bell (/ (2 * sigma ^ 2)) 0) t0 ->
  gaussian_charge z c -> length shares = length ORDERS ->
  stands_for (with_shares shares) c (law sigma t0 d (moved d u k)) (law sigma t0 d u) /\
  stands_for (with_shares shares) c (law sigma t0 d u) (law sigma t0 d (moved d u k)).
Proof.
  intros Hr Hk Hsigma Hvar Ht0 Hc Hlen.
  split; apply (charge_of_law z); auto using (theta_pos _ _ _ Ht0).
  - intros a n Ha Hn. now apply (certified_sum z r k sigma t0 d u a n).
  - intros a n Ha Hn. now apply (certified_sum z r k sigma t0 d u a n).
Qed.
